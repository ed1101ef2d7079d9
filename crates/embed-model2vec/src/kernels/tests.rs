//! Every level against the definition.
