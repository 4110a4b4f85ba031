import * as z from "zod/mini";

export const standardPrompt = {
  title: "Upgrade Your Plan",
  primaryButtonText: "View Plans",
  secondaryButtonText: "Maybe Later",
  delaySeconds: 15,
  features: [
    "Unlimited strategic plans",
    "Collaboration with unlimited team members",
    "Advanced reporting features",
    "Priority customer support",
  ],
};

const outOfRange = "Delay must be from 0 to 300 seconds";
const buttonText = z.string().check(z.trim(), z.maxLength(200, "A button's text must be at most 200 characters"));

export const promptFormSchema = z.object({
  title: z.string().check(z.trim(), z.maxLength(500, "Title must be at most 500 characters")),
  subtitle: z.string().check(z.trim(), z.maxLength(2000, "Subtitle must be at most 2,000 characters")),
  imageUrl: z.string().check(
    z.trim(),
    z.maxLength(2000, "This address is too long"),
    z.refine(
      (url) => url === "" || /^(https?:\/\/|\/(?!\/))\S+$/.test(url),
      "Enter an address that begins with https://",
    ),
  ),
  /** One per line. */
  features: z.string().check(z.maxLength(15_000, "This list is too long")),
  primaryButtonText: buttonText,
  secondaryButtonText: buttonText,
  delaySeconds: z.pipe(
    z.pipe(z.string(), z.transform(toSeconds)),
    z.int("Delay must be whole seconds").check(z.minimum(0, outOfRange), z.maximum(300, outOfRange)),
  ),
});
export type PromptFormInput = z.input<typeof promptFormSchema>;
export type PromptFormValues = z.output<typeof promptFormSchema>;

/** What is no number counts as none. */
function toSeconds(text: string) {
  const seconds = Number(text);
  return text.trim() === "" || Number.isNaN(seconds) ? 0 : seconds;
}

/** One feature per line; blank lines are dropped. */
export function linesOf(text: string) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** The features of a row, which may hold a list, or a list as a text. */
export function featuresOf(json: unknown): string[] {
  if (typeof json === "string") {
    try {
      return featuresOf(JSON.parse(json));
    } catch {
      return linesOf(json);
    }
  }
  return Array.isArray(json) ? json.filter((item): item is string => typeof item === "string") : [];
}
