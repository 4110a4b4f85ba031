import Stripe from "stripe";

// A Stripe webhook: the signature is checked over the exact bytes of the body.
const stripe = new Stripe("sk_test_conformance");
const secret = Deno.env.get("STRIPE_WEBHOOK_SECRET") ?? "";

Deno.serve(async (request) => {
  const signature = request.headers.get("Stripe-Signature") ?? "";
  try {
    const event = await stripe.webhooks.constructEventAsync(await request.text(), signature, secret);
    return Response.json({ received: event.type });
  } catch (error) {
    return new Response(`Webhook Error: ${(error as Error).message}`, { status: 400 });
  }
});
