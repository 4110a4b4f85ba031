//! The app's plan invitations under autoconfirm, as in development: knowing the token does not prove
//! ownership of the address.

use super::mail_support::token_of;
use super::*;

struct Plan {
    id: String,
    server: Basalt,
    owner: String,
}

impl Plan {
    async fn begin() -> Self {
        let server = quick().app().config("auth.external_anonymous_users_enabled", "true").start().await;
        let owner = signed_up(&server, "owner@example.org").await;
        let created = rest(&server, &owner, Method::POST, "plans?select=id")
            .header("prefer", "return=representation")
            .json(&json!({ "title": "The plan", "user_id": claims(&owner)["sub"] }));
        let id = text(&created.send().await.expect(201).json(), "/0/id").to_owned();
        Self { id, server, owner }
    }

    /// Invites as the app does, and returns the token.
    async fn invite(&self, email: &str, role: &str) -> String {
        let invitation = json!({ "plan_id": self.id, "email": email, "role": role });
        let invited = rest(&self.server, &self.owner, Method::POST, "plan_members?select=invite_token")
            .header("prefer", "return=representation")
            .json(&invitation);
        text(&invited.send().await.expect(201).json(), "/0/invite_token").to_owned()
    }

    async fn accept(&self, as_user: &str, token: &str) -> Response {
        let arguments = json!({ "token": token, "plan": self.id });
        rest(&self.server, as_user, Method::POST, "rpc/accept_invitation").json(&arguments).send().await
    }

    async fn invitations(&self, as_user: &str) -> Value {
        let path = "plan_members?select=role,invite_token&invite_accepted=is.false&order=role";
        rest(&self.server, as_user, Method::GET, path).send().await.expect(200).json()
    }

    /// Signs in with a link from the mailbox.
    async fn follow_link(&self, email: &str) -> String {
        let _sent = post(&self.server, "/otp", &json!({ "email": email })).await.expect(200);
        let mail = self.server.mailbox().wait_for(email).await;
        let opened = super::codes::open(&self.server, "magiclink", &mail.token_hash(), "").await;
        super::codes::pairs(&super::codes::location(&opened), '#')["access_token"].clone()
    }
}

fn rest(server: &Basalt, token: &str, method: Method, path: &str) -> Request {
    server.request(method, &format!("/rest/v1/{path}")).apikey(server.anon_key()).bearer(token)
}

async fn signed_up(server: &Basalt, email: &str) -> String {
    let body = json!({ "email": email, "password": "secret1", "data": { "email_verified": true } });
    let _session = post(server, "/signup", &body).await.expect(200);
    token_of(server, email).await
}

#[tokio::test]
async fn invitation_requires_a_link_from_the_mailbox() {
    let plan = Plan::begin().await;
    let token = plan.invite("Maya@example.org", "manager").await;
    let maya = signed_up(&plan.server, "maya@example.org").await;
    let refused = plan.accept(&maya, &token).await.expect(403).json();
    assert_eq!(refused["message"], "Confirm your e-mail address first");
    assert!(text(&refused, "/hint").contains("link that is mailed"), "{refused}");

    let maya = plan.follow_link("maya@example.org").await;
    assert_eq!(plan.accept(&maya, &token).await.expect(200).json(), "manager");
    // Once the address is proven, no link is needed.
    let again = token_of(&plan.server, "maya@example.org").await;
    assert_eq!(plan.invitations(&again).await, json!([]));
}

#[tokio::test]
async fn manager_cannot_use_an_owner_invitation() {
    let plan = Plan::begin().await;
    let token = plan.invite("mallory@example.org", "manager").await;
    let _session = signed_up(&plan.server, "mallory@example.org").await;
    let mallory = plan.follow_link("mallory@example.org").await;
    let _role = plan.accept(&mallory, &token).await.expect(200);

    let owners = plan.invite("victim@example.org", "owner").await;
    let viewers = plan.invite("viewer@example.org", "viewer").await;
    assert_eq!(plan.invitations(&mallory).await, json!([{ "role": "viewer", "invite_token": viewers }]));
    assert_eq!(plan.invitations(&plan.owner).await.as_array().unwrap().len(), 2);
    // A user who learned the token elsewhere and claims the address has not received its mail.
    let taken = signed_up(&plan.server, "victim@example.org").await;
    assert_eq!(plan.accept(&taken, &owners).await.expect(403).json()["code"], "42501");
}

#[tokio::test]
async fn admin_can_prove_an_address_anonymous_user_cannot() {
    let plan = Plan::begin().await;
    let token = plan.invite("ghost@example.org", "owner").await;
    let session = post(&plan.server, "/signup", &json!({ "data": {} })).await.expect(200).json();
    let body = json!({ "email": "ghost@example.org", "password": "secret1" });
    let _user = put_user(&plan.server, text(&session, "/access_token"), &body).await.expect(200);
    let ghost = token_of(&plan.server, "ghost@example.org").await;
    let refused = plan.accept(&ghost, &token).await.expect(403).json();
    assert_eq!(refused["message"], "Confirm your e-mail address first");

    let token = plan.invite("known@example.org", "viewer").await;
    let body = json!({ "email": "known@example.org", "password": "secret1", "email_confirm": true });
    let create = plan.server.post("/auth/v1/admin/users").apikey(plan.server.service_key());
    let _user = create.bearer(plan.server.service_key()).json(&body).send().await.expect(200);
    let known = token_of(&plan.server, "known@example.org").await;
    assert_eq!(plan.accept(&known, &token).await.expect(200).json(), "viewer");
}
