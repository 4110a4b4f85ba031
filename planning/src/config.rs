//! The `[stripe]` section.

use basalt_core::settings;
use basalt_core::settings::BaseUrl;
use basalt_core::settings::Fallback::By;
use secrecy::SecretString;

/// The sections with their descriptions.
pub(crate) const SECTIONS: &[(&str, &str)] = &[(
    "stripe",
    "Payments. Without a key, nothing can be bought. For test cards without a Stripe account, start `basalt-stripe-double`.",
)];

settings! {
    /// The `[stripe]` settings.
    #[derive(Clone, Debug)]
    pub struct StripeConfig in "stripe" with r {
        /// `sk_…` or `rk_…`; functions see it as `STRIPE_SECRET_KEY`.
        secret_key: Option<SecretString> = By("none"), secret;
        /// `whsec_…`: the signing secret of the webhook endpoint. Functions see it as `STRIPE_WEBHOOK_SECRET`.
        webhook_secret: Option<SecretString> = By("none"), secret;
        /// Address of the Stripe API.
        api_base: Option<BaseUrl> = By("Stripe's");
    }
}
