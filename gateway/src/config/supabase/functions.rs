//! `[functions.NAME]`.

use basalt_core::settings::Value;
use toml::de::{DeTable, DeValue};

use super::super::raw::FunctionSection;
use super::{ConfigReader, at};

/// Keys of `[functions.NAME]`.
const FUNCTION_KEYS: [&str; 6] = ["enabled", "verify_jwt", "import_map", "entrypoint", "static_files", "env"];

impl ConfigReader<'_> {
    pub(super) fn read_functions(&mut self, table: &DeTable<'_>) {
        let Some(functions) = at(table, &["functions"]) else { return };
        for (name, section) in functions {
            let DeValue::Table(section) = section.get_ref() else { continue };
            let source = self.file.source(name.span().start);
            let mut pairs = Vec::new();
            for (key, value) in section {
                let mut unset = Vec::new();
                let value = self.variables.resolve(value.get_ref(), &mut unset);
                let is_valid = FUNCTION_KEYS.contains(&&**key.get_ref())
                    && (!matches!(&**key.get_ref(), "enabled" | "verify_jwt")
                        || matches!(value, Value::Boolean(_)));
                if is_valid {
                    pairs.push((key.get_ref().to_string(), value));
                } else {
                    let source = self.file.source(key.span().start);
                    self.out.warnings.push(format!(
                        "{source}: not a setting of functions, or not a value for it; ignored"
                    ));
                }
            }
            let name = name.get_ref().to_string();
            if basalt_functions::FunctionSettings::read(&name, &pairs).is_ok() {
                self.out.functions.push(FunctionSection { name, source, pairs });
            } else {
                self.out.warnings.push(format!("{source}: {name} is not a function's name; ignored"));
            }
        }
    }
}
