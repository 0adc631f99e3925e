//! The Redis views: one file + one typed function + one test per script. Written by owners, read by owners and gateways.
