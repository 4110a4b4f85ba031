import { queryOptions, useMutation } from "@tanstack/react-query";
import * as z from "zod/mini";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import type { Json } from "@/lib/database.types";
import { messageOf } from "@/lib/errors";
import { invokeFunction } from "@/lib/functions";
import { requireRow, staleIfTaken } from "@/lib/stale-row";
import { toast } from "@/lib/toast";
import type { MailSettings, Template, TestMail } from "./schema";

type Key = "email_resend" | "invite_email_template";

export interface Setting<Value> {
  updated_at: string;
  value: Value;
}

const settingsKey = ["app-settings"] as const;

async function readSetting<Value>(key: Key, schema: z.ZodMiniType<Value>, signal: AbortSignal) {
  const { data } = await basalt
    .from("app_settings")
    .select("value, updated_at")
    .eq("key", key)
    .abortSignal(signal)
    .maybeSingle()
    .throwOnError();
  return data && { updated_at: data.updated_at, value: schema.parse(data.value) };
}

const text = z.pipe(
  z.nullish(z.string()),
  z.transform((value) => value ?? ""),
);
const mailSettingsShape = z.object({ apiKey: text, fromEmail: text, fromName: text });
const templateShape = z.object({ subject: text, body: text });

/** How mail is sent. Of a saved key only a mask ever comes back. */
export const mailSettingsQuery = () =>
  queryOptions({
    queryKey: [...settingsKey, "email_resend"] as const,
    queryFn: ({ signal }) => readSetting("email_resend", mailSettingsShape, signal),
    meta: { errorTitle: "Failed to load settings." },
  });

export const templateQuery = () =>
  queryOptions({
    queryKey: [...settingsKey, "invite_email_template"] as const,
    queryFn: ({ signal }) => readSetting("invite_email_template", templateShape, signal),
    meta: { errorTitle: "Failed to load settings." },
  });

export function useSaveMailSettings() {
  return useSaveSetting<MailSettings>("email_resend", "Settings saved", "Failed to save settings.", testAccount);
}

export function useSaveTemplate() {
  return useSaveSetting<Template>("invite_email_template", "Template saved", "Failed to save template.");
}

/** Has the server ask Resend about a new key or sender. Sends no mail; the mask of the saved key stands for it. */
async function testAccount({ apiKey, fromEmail }: MailSettings, saved: MailSettings | undefined) {
  if (saved && saved.apiKey === apiKey && saved.fromEmail === fromEmail) return;
  await invokeFunction("test-mail-key", { apiKey, fromEmail }, { failed: "The server gave no reason." });
}

/** Removes the key. The server's own mail settings count again, for waiting mails too. */
export function useRemoveKey() {
  return useChange({
    failed: "Failed to save settings.",
    refetches: [settingsKey, ["admin-health"]],
    change: async (base: Setting<MailSettings>) => {
      const { data } = await basalt
        .from("app_settings")
        // An empty key removes the stored one; no key, or its mask, would keep it.
        .update({ value: { ...base.value, apiKey: "" } })
        .eq("key", "email_resend")
        .eq("updated_at", base.updated_at)
        .select("key")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
      // Waiting mails would go out at their next attempt anyway.
      await invokeFunction("retry-mails", { abandoned: false }, { failed: "" }).catch((error: unknown) =>
        console.warn("Waiting mails were not sent at once.", error),
      );
    },
  });
}

function useSaveSetting<Value extends Record<string, Json>>(
  key: Key,
  done: string,
  failed: string,
  /** Rejects a value that would not work. */
  test?: (value: Value, saved: Value | undefined) => Promise<void>,
) {
  return useChange({
    done,
    failed,
    refetches: [settingsKey],
    change: async ({ base, values: value }: { base: Setting<Value> | null; values: Value }) => {
      await test?.(value, base?.value);
      if (!base) {
        await basalt.from("app_settings").insert({ key, value }).throwOnError().then(undefined, staleIfTaken);
        return;
      }
      const { data } = await basalt
        .from("app_settings")
        .update({ value })
        .eq("key", key)
        .eq("updated_at", base.updated_at)
        .select("key")
        .maybeSingle()
        .throwOnError();
      requireRow(data);
    },
  });
}

export function useSendTestMail() {
  return useMutation({
    mutationFn: (mail: TestMail) => invokeFunction("test-email", mail, { failed: "The server gave no reason." }),
    onSuccess: (_answer, { to }) => void toast.success("Test email sent", { description: `To ${to}` }),
    onError: (error) => void toast.error("Failed to send test email.", { description: messageOf(error) }),
  });
}
