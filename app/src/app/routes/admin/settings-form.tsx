import { PromptSettings } from "@/features/admin-prompt/prompt-settings";
import { OperatorSettings } from "@/features/admin-settings/operator-settings";

/** The forms of the settings, as one chunk: each name of a chunk counts in the first script of every page. */
export function SettingsForm({ of }: { of: "subscription-prompt" | "operator" }) {
  return of === "operator" ? <OperatorSettings /> : <PromptSettings />;
}
