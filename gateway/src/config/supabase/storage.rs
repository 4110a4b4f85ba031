//! `[storage.buckets.NAME]`.

use basalt_core::settings::Value;
use basalt_core::settings::kinds::{Bytes, read_as};
use basalt_project::supabase::{BucketFiles, BucketSettings, FOLDER};
use toml::de::{DeTable, DeValue};

use super::{ConfigReader, at};

impl ConfigReader<'_> {
    pub(super) fn read_buckets(&mut self, table: &DeTable<'_>) {
        let Some(buckets) = at(table, &["storage", "buckets"]) else { return };
        for (name, bucket) in buckets {
            let DeValue::Table(bucket) = bucket.get_ref() else { continue };
            let source = self.file.source(name.span().start);
            let name = name.get_ref().to_string();
            let mut unset = Vec::new();
            let mut get =
                |key: &str| bucket.get(key).map(|value| self.variables.resolve(value.get_ref(), &mut unset));
            let is_public = matches!(get("public"), Some(Value::Boolean(true)));
            let limit = get("file_size_limit");
            let types = get("allowed_mime_types");
            let limit = limit.map(|value| read_as::<u64, Bytes>(&value));
            let limit = match limit {
                Some(Err(fault)) => {
                    self.out.warnings.push(format!("{source}: file_size_limit {fault}; ignored"));
                    None
                }
                Some(Ok(bytes)) => i64::try_from(bytes).ok(),
                None => None,
            };
            let types = match types {
                Some(Value::List(items)) if !items.is_empty() => {
                    Some(items.iter().filter_map(Value::text).map(str::to_owned).collect())
                }
                _ => None,
            };
            if let Some(Value::Text(path)) = get("objects_path") {
                let folder = self.file.project_dir.join(FOLDER).join(path);
                self.out.project.bucket_files.push(BucketFiles { bucket: name.clone(), folder });
            }
            self.out.project.buckets.push(BucketSettings {
                name,
                is_public,
                file_size_limit: limit,
                allowed_mime_types: types,
            });
        }
    }
}
