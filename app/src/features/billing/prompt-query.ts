import { queryOptions } from "@tanstack/react-query";
import { fieldsOf, textOf, textsOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";

const defaultFeatures = [
  "Unlimited strategic plans",
  "Collaboration with unlimited team members",
  "Advanced reporting features",
  "Priority customer support",
];

export interface Prompt {
  title: string;
  subtitle: string;
  image_url: string | null;
  features: string[];
  primary_button_text: string;
  secondary_button_text: string;
  delay_seconds: number;
}

export const promptKey = ["subscription-prompt"];

/** What administrators say in the prompt to subscribe; the app's own words where they say nothing. */
export const promptQuery = () =>
  queryOptions({
    queryKey: promptKey,
    queryFn: async ({ signal }): Promise<Prompt> => {
      const { data } = await (await publicRows())
        .from("subscription_prompt")
        .select("*")
        .limit(1)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      return promptOf(data);
    },
    staleTime: 5 * 60_000,
    retry: 1,
  });

export const defaultPrompt = promptOf(undefined);

/** A row of whatever shape, its gaps filled. */
export function promptOf(row: unknown): Prompt {
  const fields = fieldsOf(row);
  const text = (name: string, standard: string) => textOf(fields, name) ?? standard;
  const delay = fields.get("delay_seconds");
  return {
    title: text("title", "Upgrade Your Plan"),
    subtitle: text("subtitle", "Get the most out of your strategic planning."),
    image_url: textOf(fields, "image_url"),
    features: featuresOf(fields.get("features")),
    primary_button_text: text("primary_button_text", "View Plans"),
    secondary_button_text: text("secondary_button_text", "Maybe Later"),
    delay_seconds: typeof delay === "number" ? delay : 0,
  };
}

/** How long to wait before asking; 0, and anything that is no delay, means the standard. */
export function promptDelayMs({ delay_seconds: seconds }: Prompt) {
  return (seconds > 0 ? Math.min(seconds, 300) : 15) * 1000;
}

// A list, or a list as a text: both are in use.
function featuresOf(value: unknown): string[] {
  const list = typeof value === "string" ? parse(value) : value;
  const texts = textsOf(list);
  return texts.length > 0 ? texts : defaultFeatures;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
