//! A gateway between real clients and real routers: connections, frames, the server API, delivery, history.
mod api;
mod cold;
mod connections;
mod faults;
mod flow;
mod frames;
mod join;
mod socket;
mod world;
