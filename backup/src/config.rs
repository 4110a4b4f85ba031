//! Settings of the section `[backup]`.

use std::path::Path;
use std::time::Duration;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, Is};
use basalt_core::settings::kinds::{Bytes, Time, Whole, quote};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Value};
use secrecy::SecretString;

use crate::runs::Schedule;

settings! {
    /// Settings of `[backup]`.
    #[derive(Clone, Debug)]
    pub struct BackupConfig in "backup" with r {
        /// Where backups are stored: a folder, or `s3://bucket/prefix` with the settings of `[backup.s3]`. Each project needs its own.
        target: Option<String> = By("none: no backups");
        /// When the server makes a backup: five cron fields, in UTC.
        schedule: Option<String> as Option<CronFields> = By("none: only `basalt backup` makes one");
        /// When the server verifies the newest backup by restoring it to a scratch folder: five cron fields, in UTC.
        verify_schedule: Option<String> as Option<CronFields> = By("none: only `basalt backup verify` does");
        /// How long backups, and the log between them, are kept. The newest complete backup is always kept.
        retention: Duration as Time<3_600_000> = Is("14d");
        /// Encrypts the secrets and the project's files in a backup. Keep a copy elsewhere: without it they cannot be restored.
        passphrase: Option<SecretString> = By("none: `server.master_key` encrypts them"), secret;
        /// Whether the server archives the log of the embedded PostgreSQL continuously, for `basalt restore --at`.
        point_in_time: bool = Is("true");
        /// At most this much time is lost if the machine is: how often a part of the log is archived.
        archive_interval: Duration as Time<100> = Is("10s");
        /// Log that the embedded PostgreSQL keeps while the target is unreachable. Beyond it, point-in-time recovery has a gap until the next backup.
        max_kept_log: u64 as Bytes<67_108_864> = Is("4GiB");
        /// Concurrent transfers of objects.
        transfers: usize as Whole<1, 64> = Is("4");
    } also {
        /// Settings of `[backup.s3]`.
        s3: BackupS3Config = BackupS3Config::read(r);
    }
}

settings! {
    /// Settings of `[backup.s3]`: the store for a target `s3://…`.
    #[derive(Clone, Debug)]
    pub struct BackupS3Config in "backup.s3" with r {
        /// URL of the S3-compatible store.
        endpoint: Option<BaseUrl> = By("AWS's for the region");
        /// Region of the store.
        region: String = Is("us-east-1");
        /// Access key id.
        access_key_id: Option<String> = By("none");
        /// Secret access key.
        secret_access_key: Option<SecretString> = By("none"), secret;
        /// Put the bucket name into the path instead of the host name.
        force_path_style: bool = Is("true");
    }
}

impl BackupConfig {
    /// Conflicting settings, as `(key, problem)`.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let mut faults = Vec::new();
        if self.s3.access_key_id.is_some() != self.s3.secret_access_key.is_some() {
            faults.push((
                "backup.s3.access_key_id",
                "and backup.s3.secret_access_key must be set together: set both or neither",
            ));
        }
        for (key, is_set) in [
            ("backup.schedule", self.schedule.is_some()),
            ("backup.verify_schedule", self.verify_schedule.is_some()),
        ] {
            if is_set && self.target.is_none() {
                faults.push((key, "requires backup.target: set it to a folder or s3://bucket/prefix"));
            }
        }
        faults
    }

    /// Whether the server archives the log.
    #[must_use]
    pub const fn archives(&self) -> bool {
        self.target.is_some() && self.point_in_time
    }
}

/// Five cron fields.
struct CronFields;

impl Kind<String> for CronFields {
    fn expected() -> String {
        "five cron fields, such as \"0 3 * * *\" for every night at 3:00 UTC".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(String, String), InvalidValue> {
        let text = value.text().ok_or(InvalidValue::Kind)?;
        let _schedule: Schedule = text.parse().map_err(|_invalid| InvalidValue::Kind)?;
        Ok((text.to_owned(), quote(text)))
    }
}
