import { expect, test } from "vitest";
import { fillTemplate, mailSettingsSchema, templateSchema, testMailSchema, unknownVariables } from "./schema";

const messagesOf = (result: { error?: { issues: { message: string }[] } | undefined }) =>
  result.error?.issues.map(({ message }) => message);

test("forms show the specified messages", () => {
  expect(messagesOf(mailSettingsSchema.safeParse({ apiKey: "", fromEmail: "x", fromName: " " }))).toEqual([
    "API key is required",
    "Must be a valid email address",
    "Sender name is required",
  ]);
  expect(messagesOf(templateSchema.safeParse({ subject: "", body: "" }))).toEqual([
    "Subject template is required",
    "Email body template is required",
  ]);
  expect(messagesOf(testMailSchema.safeParse({ to: "a@b", subject: "", message: "" }))).toEqual([
    "Must be a valid email address",
    "Subject is required",
    "Message is required",
  ]);
});

test("replaces known variables once and keeps unknown ones", () => {
  expect(fillTemplate("{{planTitle}} {{ role }} {role} {{x}}", { planTitle: "{{role}}", role: "viewer" })).toBe(
    "{{role}} viewer viewer {{x}}",
  );
});

test("reports each unknown variable once", () => {
  expect(unknownVariables("{{planTitle}} {{role}} {{rule}} {{rule}}", ["planTitle"])).toEqual(["role", "rule"]);
});
