//! What a daemon needs to be a node among others.

use crate::config::{self, BlobsUrl, Settings, Sources, cluster_secret};
use crate::failure::Failure;
use shellkeep_runtime::{BlobPlace, ClusterConfig, WhenAlone};
use shellkeep_server::Peers;
use tokio::net::TcpListener;

/// How this node takes part in a cluster, if its store is shared.
pub(super) fn config(settings: &Settings, tcp: Option<&TcpListener>) -> Result<Option<ClusterConfig>, Failure> {
    let url = &settings.store.value;
    if !shellkeep_shared::is_shared(url) {
        return Ok(None);
    }
    let given = &settings.advertise.value;
    let advertise = match tcp {
        Some(listener) if given.is_empty() => {
            format!("http://{}", listener.local_addr().map_err(Failure::start)?)
        }
        _ => given.clone(),
    };
    let node = settings.node.value.clone();
    let when_alone = match settings.when_alone.value {
        config::WhenAlone::Serve => WhenAlone::Serve,
        config::WhenAlone::Refuse => WhenAlone::Refuse,
    };
    let blobs = settings.blobs_place()?.map(blob_place).transpose()?;
    Ok(Some(ClusterConfig { url: url.clone(), node, advertise, blobs, when_alone }))
}

fn blob_place(url: BlobsUrl) -> Result<BlobPlace, Failure> {
    match url {
        BlobsUrl::Directory(directory) => Ok(BlobPlace::Directory(directory)),
        #[cfg(feature = "s3")]
        BlobsUrl::Bucket(url) => {
            let wrong = |reason: String| Failure::start(format!("blobs is '{url}': {reason}"));
            let address = shellkeep_s3::Address::parse(&url, config::environment);
            let address = address.map_err(|error| wrong(error.to_string()))?;
            let bucket = shellkeep_s3::Bucket::open(address).map_err(wrong)?;
            Ok(BlobPlace::Objects(std::sync::Arc::new(bucket)))
        }
        #[cfg(not(feature = "s3"))]
        BlobsUrl::Bucket(url) => Err(Failure::start(format!("blobs is '{url}', which this program was built without"))),
    }
}

/// How this node shows others that it is one of them.
pub(super) fn peers(
    settings: &Settings,
    sources: &Sources,
    cluster: Option<&ClusterConfig>,
    token: &str,
) -> Result<Option<Peers>, Failure> {
    let Some(cluster) = cluster else { return Ok(None) };
    let variable = sources.variables.get("SHELLKEEP_CLUSTER_SECRET");
    let secret = cluster_secret(variable, settings.cluster_secret_file.value.as_deref(), token)?;
    Ok(Some(Peers::new(&cluster.node, &secret)))
}
