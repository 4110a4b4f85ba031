import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { basalt } from "@/lib/basalt";

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
  database_bytes: z.number(),
  versions: z.object({ postgresql: z.string(), app_migration: z.nullable(z.string()) }),
  server_time: z.string(),
});
export type Health = z.infer<typeof healthSchema>;

export const healthQuery = () =>
  queryOptions({
    queryKey: ["admin-health"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt.rpc("admin_health").abortSignal(signal).throwOnError();
      return healthSchema.parse(data);
    },
    refetchInterval: 30_000,
    staleTime: 0,
  });
