//! `lapwing tenants …`
use hyper::Method;
use serde_json::{Value, json};

use crate::config::Config;

#[derive(clap::Subcommand)]
pub(crate) enum Action {
    /// All tenants.
    List,
    /// One tenant: keys, limits, suspended or not.
    Show { tenant: String },
    /// Makes a tenant (again: changes nothing).
    Create { tenant: String },
    /// Refuses a tenant on all nodes; with --off lets it in again.
    Suspend {
        tenant: String,
        #[arg(long)]
        off: bool,
    },
    /// Makes a server API key and prints it, once; with --delete takes it away.
    Key {
        tenant: String,
        name: String,
        #[arg(long)]
        delete: bool,
    },
}

pub(crate) async fn run(config: &Config, action: Action) -> anyhow::Result<()> {
    let api = config.operator()?;
    let answer = match action {
        Action::List => api.call(Method::GET, "/v1/tenants", None).await?,
        Action::Show { tenant } => api.call(Method::GET, &format!("/v1/tenants/{tenant}"), None).await?,
        Action::Create { tenant } => api.create_tenant(&tenant).await?,
        Action::Suspend { tenant, off } => {
            let path = format!("/v1/tenants/{tenant}/suspend");
            api.call(Method::POST, &path, Some(&json!({ "suspended": !off }))).await?
        }
        Action::Key { tenant, name, delete: true } => {
            api.call(Method::DELETE, &format!("/v1/tenants/{tenant}/keys/{name}"), None).await?
        }
        Action::Key { tenant, name, delete: false } => {
            println!("{}", api.create_key(&tenant, &name).await?);
            return Ok(());
        }
    };
    match answer {
        Value::Null => println!("done"),
        answer => println!("{}", serde_json::to_string_pretty(&answer)?),
    }
    Ok(())
}
