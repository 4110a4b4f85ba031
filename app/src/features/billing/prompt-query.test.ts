import { expect, test } from "vitest";
import { promptDelayMs, promptOf } from "./prompt-query";

test("missing settings use the default texts", () => {
  expect(promptOf(undefined)).toEqual(promptOf({ title: " ", features: [], delay_seconds: 0 }));
  expect(promptOf(undefined)).toMatchObject({ title: "Upgrade Your Plan", primary_button_text: "View Plans" });
  expect(promptOf(undefined).features).toHaveLength(4);
});

test.each([[["One", "Two"]], ['["One","Two"]']])("accepts features as a list or JSON text: %j", (features) => {
  expect(promptOf({ features }).features).toEqual(["One", "Two"]);
});

test.each([
  [0, 15],
  [-3, 15],
  [40, 40],
  [9000, 300],
])("a delay of %j seconds waits %j", (given, waited) => {
  expect(promptDelayMs(promptOf({ delay_seconds: given }))).toBe(waited * 1000);
});
