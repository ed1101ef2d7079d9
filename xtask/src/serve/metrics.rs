//! Reading the text format of Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::bodies;
use super::http::once;

/// What `/metrics` said at one time.
#[derive(Debug)]
pub(crate) struct Metrics(String);

impl Metrics {
    pub(crate) fn read(address: SocketAddr) -> Result<Self> {
        let request = bodies::get(address, "/metrics");
        let (status, body) = once(address, &request, Duration::from_secs(10))
            .map_err(|failure| anyhow!("reading /metrics: {failure}"))?;
        ensure!(status == 200, "reading /metrics: status {status}");
        Ok(Self(String::from_utf8(body)?))
    }

    /// The sum of all series of a name whose labels contain `labels`; nothing, if there is none.
    pub(crate) fn sum(&self, name: &str, labels: &str) -> Option<f64> {
        let mut sum = None;
        for line in self.0.lines().filter(|line| !line.starts_with('#')) {
            let Some(rest) = line.strip_prefix(name) else { continue };
            let (found, value) = match rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}'))
            {
                Some((found, value)) => (found, value),
                None if rest.starts_with(' ') => ("", rest),
                None => continue,
            };
            let value = value.split_whitespace().next().and_then(|value| value.parse::<f64>().ok());
            if let (true, Some(value)) = (found.contains(labels), value) {
                *sum.get_or_insert(0.0) += value;
            }
        }
        sum
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_name_are_summed() {
        let text = "# HELP embed_x Something.\n# TYPE embed_x counter\n\
                    embed_x_total{model=\"m\",code=\"200\"} 3\nembed_x_total{model=\"m\",code=\"429\"} 4\n\
                    embed_x_total_more 9\nembed_ready 1\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("embed_x_total", ""), Some(7.0));
        assert_eq!(metrics.sum("embed_x_total", "code=\"429\""), Some(4.0));
        assert_eq!(metrics.sum("embed_ready", ""), Some(1.0));
        assert_eq!(metrics.sum("embed_y", ""), None);
    }
}
