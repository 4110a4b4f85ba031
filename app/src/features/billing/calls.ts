import { basalt } from "@/lib/basalt";

/** Sends the browser to the card provider's page for a purchase. Rejects with a message for the person. */
export async function startCheckout(priceId: string) {
  const { origin } = window.location;
  const body = {
    priceId,
    successUrl: `${origin}/dashboard?subscription=success`,
    cancelUrl: `${origin}/pricing?subscription=canceled`,
  };
  const answer = await call("create-checkout-session", body, "Failed to create checkout session");
  leaveFor(answer, "Failed to create checkout session");
}

/** Sends the browser to the card provider's page for cards and bills. */
export async function openBillingPortal() {
  const body = { returnUrl: `${window.location.origin}/dashboard/subscription` };
  const answer = await call("create-portal-session", body, "Failed to create customer portal session");
  leaveFor(answer, "Failed to create customer portal session");
}

/** Ends the subscription with the period that is paid for. */
export async function cancelSubscription(subscriptionId: string) {
  await call("cancel-subscription", { subscriptionId }, "Failed to cancel subscription");
}

export async function reactivateSubscription(subscriptionId: string) {
  await call("reactivate-subscription", { subscriptionId }, "Failed to reactivate subscription");
}

async function call(name: string, body: object, failed: string): Promise<unknown> {
  const { data: session } = await basalt.auth.getSession();
  if (!session.session) throw new Error("No active session found");
  const { data, error } = await basalt.functions.invoke<unknown>(name, { body });
  if (error) throw new Error((await errorField(error)) ?? failed, { cause: error });
  return data;
}

/** The sentence that the function gave, which is for the person. */
async function errorField(error: unknown) {
  const response = error && typeof error === "object" && "context" in error ? error.context : null;
  if (!(response instanceof Response)) return null;
  const answer: unknown = await response.json().catch(() => null);
  const sentence = answer && typeof answer === "object" && "error" in answer ? answer.error : null;
  return typeof sentence === "string" && sentence !== "" ? sentence : null;
}

function leaveFor(answer: unknown, failed: string) {
  const url = answer && typeof answer === "object" && "url" in answer ? answer.url : null;
  if (typeof url !== "string" || !/^https?:\/\//.test(url)) throw new Error(failed);
  window.location.assign(url);
}
