//! Lapwing's gateway: clients' connections and the server API. Files in the order in which data flows: accept → connection
//! (socket, session) → requests → publish → owners; deliver → hub → session; history and catch_up beside them.

pub mod accept;
pub mod attach;
pub mod auth;
pub mod catch_up;
pub mod close;
pub mod config;
pub mod connect;
pub mod connection;
pub mod cursors;
pub mod deliver;
pub mod demo;
pub mod drain;
pub mod gateway;
pub mod health;
pub mod heartbeats;
pub mod history;
pub mod http;
pub mod hub;
pub mod limits;
pub mod nodes;
pub mod owners;
pub mod presence;
pub mod publish;
pub mod rate;
pub mod requests;
pub mod server_api;
pub mod session;
pub mod socket;
pub mod start;
pub mod tenants;
