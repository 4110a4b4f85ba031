import * as z from "zod/mini";

const notEmail = "Must be a valid email address";
const email = z.pipe(z.string().check(z.trim(), z.maxLength(254, notEmail)), z.email(notEmail));

export const mailSettingsSchema = z.object({
  apiKey: z
    .string()
    .check(z.trim(), z.minLength(1, "API key is required"), z.maxLength(500, "This API key is too long")),
  fromEmail: email,
  fromName: z
    .string()
    .check(
      z.trim(),
      z.minLength(1, "Sender name is required"),
      z.maxLength(200, "Sender name must be at most 200 characters"),
    ),
});
export type MailSettings = z.infer<typeof mailSettingsSchema>;

export const templateSchema = z.object({
  subject: z
    .string()
    .check(
      z.trim(),
      z.minLength(1, "Subject template is required"),
      z.maxLength(200, "Subject template must be at most 200 characters"),
    ),
  body: z
    .string()
    .check(
      z.trim(),
      z.minLength(1, "Email body template is required"),
      z.maxLength(50_000, "This template is too long"),
    ),
});
export type Template = z.infer<typeof templateSchema>;

export const testMailSchema = z.object({
  to: email,
  subject: z
    .string()
    .check(z.trim(), z.minLength(1, "Subject is required"), z.maxLength(200, "Subject must be at most 200 characters")),
  message: z
    .string()
    .check(
      z.trim(),
      z.minLength(1, "Message is required"),
      z.maxLength(10_000, "Message must be at most 10,000 characters"),
    ),
});
export type TestMail = z.infer<typeof testMailSchema>;

/** What the invitation may say; the subject only the first. */
export const templateVariables = ["planTitle", "inviterEmail", "role", "inviteUrl"] as const;
export type TemplateVariable = (typeof templateVariables)[number];

// As the server expands them: with two braces, or with one.
const placeholder = /\{\{\s*(\w+)\s*\}\}|\{(\w+)\}/g;

/** A template with its variables filled in, in one pass; what is no variable stays as it is. */
export function fillTemplate(template: string, values: Partial<Record<string, string>>) {
  return template.replace(placeholder, (whole, double?: string, single?: string) => {
    const name = double ?? single ?? "";
    return Object.hasOwn(values, name) ? (values[name] ?? whole) : whole;
  });
}

/** What looks like a variable in a template and is none that is allowed there. */
export function unknownVariables(template: string, allowed: readonly string[]) {
  const names = [...template.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map((match) => match[1] ?? "");
  return [...new Set(names)].filter((name) => !allowed.includes(name));
}
