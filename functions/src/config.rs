//! What can be set about functions, and about the payments of those that are built in: `[functions]`, `[stripe]`.

use std::path::PathBuf;

use basalt_core::settings;
use basalt_core::settings::BaseUrl;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use secrecy::SecretString;

settings! {
    /// `[functions]`.
    #[derive(Clone, Debug)]
    pub struct FunctionsConfig in "functions" with r {
        /// Folder of the TypeScript functions, `NAME/index.ts`.
        dir: PathBuf = ByOr("`functions` of the project", "functions"), reserved;
        /// Whether the planning app's eight functions are registered; another project has none of their tables.
        builtin: bool = Is("false"), reserved;
    }
}

settings! {
    /// `[stripe]`.
    #[derive(Clone, Debug)]
    pub struct StripeConfig in "stripe" with r {
        /// `sk_…`; functions see it as `STRIPE_SECRET_KEY`.
        secret_key: Option<SecretString> = By("none"), secret, reserved;
        /// `whsec_…`; functions see it as `STRIPE_WEBHOOK_SECRET`.
        webhook_secret: Option<SecretString> = By("none"), secret, reserved;
        /// Address of the Stripe API.
        api_base: Option<BaseUrl> = By("Stripe's; the local double without a key"), reserved;
    }
}
