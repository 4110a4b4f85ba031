//! Challenges of phone factors: the code goes to the number as a text message.

use super::begin_challenge;
use crate::codes::one_time::digits;
use crate::database;
use crate::error::AuthError;
use crate::factors::{self, Challenge};
use crate::flows::code_sms::{OutgoingSms, account_for_hook, check_frequency, check_sendable};
use crate::origin::Origin;
use crate::sms::{Channel, Message, SmsKind};
use crate::state::Auth;
use crate::users::{self, Factor, User};

/// Creates a challenge and sends its code. If the message cannot be sent, the challenge is removed.
pub(super) async fn challenge(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    factor: &Factor,
    channel: Channel,
) -> Result<Challenge, AuthError> {
    let kind = SmsKind::Mfa;
    let phone = factor.phone.as_deref().unwrap_or_default();
    let now = auth.now();
    let test_code = auth.sms.test_code(phone, now);
    let reservation = match test_code {
        Some(_test_code) => None,
        None => {
            check_sendable(auth, phone, kind)?;
            Some(auth.sms_rates.reserve(phone)?)
        }
    };
    let code = test_code.map_or_else(|| digits(auth.config.mfa_phone_otp_length), str::to_owned);
    let text = auth.sms.text(kind, &code);
    let message = Message { phone, code: &code, text: &text, channel };
    let tx = auth.begin(origin).await?;
    let challenged = async {
        users::lock(&tx, user.id).await?.ok_or(AuthError::NoSuchSub)?;
        let last = factors::last_challenged_at(&tx, factor.id).await?;
        check_frequency(last, auth.config.mfa_phone_max_frequency, now)?;
        let challenge = begin_challenge(auth, origin, &tx, user, factor, now).await?;
        factors::set_code(&tx, challenge.id, &code).await?;
        let account = account_for_hook(auth, &tx, user.id).await?;
        let is_delivered =
            test_code.is_some() || account.is_none() && auth.sms.deliver_to_mailbox(&tx, &message).await?;
        Ok((challenge, last, account, is_delivered))
    }
    .await;
    let (challenge, last, account, is_delivered) = database::finish(tx, challenged).await?;
    if let Some(reservation) = reservation {
        reservation.spend();
    }
    if is_delivered {
        return Ok(challenge);
    }
    let message = OutgoingSms { kind, phone, code: &code, channel, account: account.as_ref() };
    match message.send(auth, origin, now).await {
        Ok(_message_id) => Ok(challenge),
        Err(error) => {
            let tx = auth.begin(origin).await?;
            let revoked = factors::revoke_challenge(&tx, challenge.id, last).await;
            database::finish(tx, revoked).await?;
            Err(error)
        }
    }
}
