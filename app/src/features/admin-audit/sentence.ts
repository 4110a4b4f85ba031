import type { LogLine } from "./queries";

const things: Record<string, string> = {
  subscription_plans: "the subscription plan",
  marketing_content: "the marketing content",
  brand_assets: "the logo",
  subscription_prompt: "the subscription prompt",
  app_settings: "the setting",
  user_roles: "an administrator",
  users: "the account",
  webhook_events: "the webhook event",
  runtime_secrets: "the signing secret",
  mail_outbox: "the waiting mails",
};

const verbs: Record<string, string> = {
  insert: "Added",
  update: "Changed",
  delete: "Deleted",
  disable: "Disabled",
  enable: "Enabled",
  set_webhook_secret: "Saved",
  replay: "Replayed",
  test_email: "Sent a test email with",
  retry_mails: "Retried",
};

const columns: Record<string, string> = {
  stripe_price_id: "Stripe price",
  primarybuttontext: "primary button",
  secondarybuttontext: "secondary button",
  primary_button_text: "primary button",
  secondary_button_text: "secondary button",
  imageurl: "image",
  image_url: "image",
  asset_url: "picture",
  htmlcontent: "HTML",
  hide_for_subscribed: "hidden for subscribers",
  delay_seconds: "delay",
};

const longestValue = 40;

/** "Changed the subscription plan “Basic”: price from 10 to 20, description" */
export function sentenceOf({
  action,
  subject,
  subject_id: id,
  details,
}: Pick<LogLine, "action" | "subject" | "subject_id" | "details">) {
  const verb = verbs[action] ?? action;
  const thing = things[subject] ?? subject;
  const changed = changesIn(details);
  const name = nameIn(changed) ?? (isReadable(id) ? id : null);
  const what = action === "update" ? changed.map(changeOf).join(", ") : "";
  return `${verb} ${thing}${name ? ` “${name}”` : ""}${what ? `: ${what}` : ""}`;
}

interface Change {
  column: string;
  /** Before and after; missing where values are not logged. */
  values: [unknown, unknown] | null;
}

function changesIn(details: LogLine["details"]): Change[] {
  const changed = details && typeof details === "object" && !Array.isArray(details) ? details.changed : null;
  if (Array.isArray(changed)) return changed.map((column) => ({ column: String(column), values: null }));
  if (!changed || typeof changed !== "object") return [];
  return Object.entries(changed).map(([column, values]) => ({
    column,
    values: Array.isArray(values) ? [values[0], values[1]] : null,
  }));
}

function nameIn(changed: Change[]) {
  const named = changed.find(
    ({ column, values }) => ["name", "key", "section", "asset_size"].includes(column) && values,
  );
  const name = named?.values?.[1] ?? named?.values?.[0];
  return typeof name === "string" && name !== "" ? name : null;
}

function changeOf({ column, values }: Change) {
  const name = columns[column] ?? column.replaceAll("_", " ");
  const [before, after] = (values ?? []).map(shortOf);
  return before && after ? `${name} from ${before} to ${after}` : name;
}

function shortOf(value: unknown) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" && value.length <= longestValue ? value : null;
}

/** A key or a section, and no id. */
function isReadable(id: string | null) {
  return id !== null && id !== "" && !/^[0-9a-f-]{36}$/i.test(id);
}
