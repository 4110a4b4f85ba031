import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { invokeFunction } from "@/lib/functions";

const backupRunSchema = z.object({
  finished_at: z.nullable(z.string()),
  error: z.nullable(z.string()),
  succeeded_at: z.nullable(z.string()),
  due_at: z.nullable(z.string()),
});

const healthSchema = z.object({
  webhooks: z.object({
    processed: z.number(),
    pending: z.number(),
    failed: z.number(),
    oldest_pending: z.nullable(z.string()),
    newest: z.nullable(z.string()),
  }),
  storage: z.array(z.object({ bucket: z.string(), files: z.number(), bytes: z.number() })),
  accounts: z.object({ all: z.number(), disabled: z.number(), unconfirmed: z.number() }),
  mail_configured: z.boolean(),
  mail: z.object({
    waiting: z.number(),
    oldest_waiting: z.nullable(z.string()),
    abandoned: z.number(),
    last_error: z.nullable(z.string()),
  }),
  backup: z.object({ backup: backupRunSchema, verify: backupRunSchema }),
  database_bytes: z.number(),
  versions: z.object({ postgresql: z.string(), app_migration: z.nullable(z.string()) }),
  server_time: z.string(),
});
export type Health = z.infer<typeof healthSchema>;

const healthKey = ["admin-health"] as const;

export const healthQuery = () =>
  queryOptions({
    queryKey: healthKey,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("admin_health").abortSignal(signal).throwOnError();
      return healthSchema.parse(data);
    },
    refetchInterval: 30_000,
    staleTime: 0,
  });

/** Sends waiting and abandoned mails now. */
export function useRetryMails() {
  return useChange({
    failed: "The mails could not be sent again",
    refetches: [healthKey],
    change: async () => {
      await invokeFunction("retry-mails", { abandoned: true }, { failed: "The server gave no reason." });
    },
  });
}
