//! The bill of materials: what the program is made of, as CycloneDX, from `Cargo.lock`.

use crate::supply::{Licences, Package};
use serde_json::{Value, json};

/// The version of the format.
const SPEC_VERSION: &str = "1.6";

/// The bill for the program of this version, made of these packages. The same input gives the same text.
pub fn bill(version: &str, packages: &[Package], licences: &Licences) -> String {
    let components: Vec<Value> = packages.iter().map(|package| component(package, licences)).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "shellkeep", "version": version, "bom-ref": "shellkeep-program"},
        },
        "components": components,
    });
    format!("{bill:#}\n")
}

fn component(package: &Package, licences: &Licences) -> Value {
    let Package { name, version, checksum, .. } = package;
    let url = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url});
    if let Some(licence) = licences.get(&(name.clone(), version.clone())) {
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}
