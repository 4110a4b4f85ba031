import { expect, test } from "vitest";
import { sentenceOf } from "./sentence";

const id = "5eed1000-0000-4000-8000-000000000001";

test.each([
  [
    {
      action: "update",
      subject: "subscription_plans",
      subject_id: id,
      details: { changed: { price: [10, 20], description: ["x".repeat(50), ""] } },
    },
    "Changed the subscription plan: price from 10 to 20, description",
  ],
  [
    {
      action: "insert",
      subject: "subscription_plans",
      subject_id: id,
      details: { changed: { name: [null, "Basic"], price: [null, 10] } },
    },
    "Added the subscription plan “Basic”",
  ],
  [
    { action: "update", subject: "app_settings", subject_id: "email_resend", details: { changed: ["value"] } },
    "Changed the setting “email_resend”: value",
  ],
  [
    {
      action: "update",
      subject: "marketing_content",
      subject_id: "hero",
      details: { changed: { visible: [true, false] } },
    },
    "Changed the marketing content “hero”: visible from yes to no",
  ],
  [{ action: "disable", subject: "users", subject_id: id, details: {} }, "Disabled the account"],
  [{ action: "something", subject: "new_table", subject_id: null, details: [] }, "something new_table"],
])("a line reads as a sentence", (line, sentence) => expect(sentenceOf(line)).toBe(sentence));
