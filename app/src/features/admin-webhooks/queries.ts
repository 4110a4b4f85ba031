import {
  infiniteQueryOptions,
  keepPreviousData,
  queryOptions,
  useMutation,
  useQueryClient,
} from "@tanstack/react-query";
import { basalt } from "@/lib/basalt";
import type { Database } from "@/lib/database.types";
import { messageOf } from "@/lib/errors";
import { invokeFunction, textField } from "@/lib/functions";
import { toast } from "@/lib/toast";
import { metadataOf } from "./replay";

type Stored = Database["public"]["Functions"]["get_webhook_events"]["Returns"][number];
/** The generator takes every column of a function for filled. */
export type WebhookEvent = Omit<Stored, "error_message" | "processed_at"> & {
  error_message: string | null;
  processed_at: string | null;
};

const pageSize = 50;
export const eventsKey = ["webhook-events"] as const;

/** Events, the newest first, in pages that the database makes. */
export const eventsQuery = (source: string, search: string) =>
  infiniteQueryOptions({
    queryKey: [...eventsKey, source, search] as const,
    queryFn: async ({ signal, pageParam }) => {
      const { data } = await basalt
        .rpc("get_webhook_events", {
          ...(source !== "all" && { source_filter: source }),
          ...(search !== "" && { search_text: search }),
          page_size: pageSize,
          page_offset: pageParam,
        })
        .abortSignal(signal)
        .throwOnError();
      return data as WebhookEvent[];
    },
    initialPageParam: 0,
    getNextPageParam: (last, _pages, offset) => (last.length === pageSize ? offset + pageSize : null),
    // An event that came between two pages moves the last of the first into the second.
    select: ({ pages }) => [...new Map(pages.flat().map((event) => [event.id, event])).values()],
    placeholderData: keepPreviousData,
    meta: { errorTitle: "Failed to load webhook events. Please try again." },
  });

/** Where the card provider sends its events: the server's own address, as it knows it. */
export const webhookUrlQuery = () =>
  queryOptions({
    queryKey: ["webhook-url"] as const,
    queryFn: async ({ signal }) => {
      const response = await fetch("/app-config.json", { signal });
      const config: unknown = response.ok ? await response.json() : null;
      return webhookUrl(textField(config, "url") ?? window.location.origin);
    },
    staleTime: Number.POSITIVE_INFINITY,
  });

export function webhookUrl(base: string) {
  return `${base.replace(/\/+$/, "")}/functions/v1/stripe-webhook`;
}

export function useSaveWebhookSecret() {
  return useMutation({
    mutationFn: (secret: string) =>
      invokeFunction(
        "set-webhook-secret",
        { secret, secretName: "STRIPE_WEBHOOK_SECRET" },
        { failed: "The server gave no reason." },
      ),
    onSuccess: () =>
      void toast.success("Secret Stored Temporarily", {
        description: "Please also set it permanently in the backend dashboard.",
      }),
    onError: (error) =>
      void toast.error("Failed to save webhook secret. Please try again.", { description: messageOf(error) }),
  });
}

const replayFailed = "Failed to replay webhook event. Please try again.";

export function useReplayEvent() {
  const queryClient = useQueryClient();
  const refresh = () => queryClient.invalidateQueries({ queryKey: eventsKey });
  return useMutation({
    mutationFn: async ({ payload }: WebhookEvent) => {
      const stored = payload && typeof payload === "object" && !Array.isArray(payload) ? payload : {};
      const found = metadataOf(payload);
      const customer_email = found.customer_email ?? (await emailOf(found.subscription_id, found.customer_id));
      const answer = await invokeFunction(
        "stripe-webhook",
        { ...stored, replay_metadata: { ...found, customer_email } },
        { failed: replayFailed, headers: { "x-webhook-replay": "true" } },
      );
      return textField(answer, "message") ?? "Webhook event replayed successfully";
    },
    onSuccess: async (message) => {
      await refresh();
      toast.success("Success", { description: message });
    },
    onError: (error) => {
      const reason = messageOf(error, replayFailed);
      toast.error("Error", { description: reason === replayFailed ? reason : `Failed to replay webhook: ${reason}` });
      // It may be processed by now, or gone.
      void refresh();
    },
  });
}

/** The address of the account that a subscription or customer belongs to. A replay works without it, too. */
async function emailOf(subscriptionId: string | null, customerId: string | null): Promise<string | null> {
  const [column, value] = subscriptionId
    ? (["stripe_subscription_id", subscriptionId] as const)
    : (["stripe_customer_id", customerId] as const);
  if (!value) return null;
  const { data } = await basalt.from("user_subscriptions").select("user_id").eq(column, value).limit(1).maybeSingle();
  if (!data) return null;
  const { data: email } = await basalt.rpc("get_user_email_by_id", { user_id_to_search: data.user_id });
  return email;
}
