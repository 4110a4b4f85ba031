import { expect, test } from "vitest";
import { featuresOf, linesOf, promptFormSchema } from "./schema";

const prompt = {
  title: "Upgrade",
  subtitle: "",
  imageUrl: "",
  features: "",
  primaryButtonText: "",
  secondaryButtonText: "",
  delaySeconds: "15",
};
const delayOf = (delaySeconds: string) => promptFormSchema.parse({ ...prompt, delaySeconds }).delaySeconds;

test.each([
  ["15", 15],
  ["0", 0],
  ["300", 300],
  ["soon", 0],
  ["", 0],
])("a delay of %j is %d seconds", (text, seconds) => {
  expect(delayOf(text)).toBe(seconds);
});

test.each(["-1", "301", "1.5"])("rejects a delay of %s", (text) => {
  expect(() => delayOf(text)).toThrow();
});

test.each(["javascript:alert(1)", "//evil.org/a.png", "picture.png"])("the image %s is refused", (imageUrl) => {
  expect(promptFormSchema.safeParse({ ...prompt, imageUrl }).success).toBe(false);
});

test("splits features into lines and drops blank ones", () => {
  expect(linesOf(" One \n\n  \nTwo")).toEqual(["One", "Two"]);
});

test.each([
  [
    ["a", 1, "b"],
    ["a", "b"],
  ],
  ['["a"]', ["a"]],
  ["a\nb", ["a", "b"]],
  [null, []],
])("the stored features %j are %j", (json, features) => {
  expect(featuresOf(json)).toEqual(features);
});
