import { expect, test } from "vitest";
import { parseFeatures, planFormSchema } from "./schema";

const plan = {
  name: "Basic",
  description: "",
  price: "20",
  interval: "month",
  stripePriceId: "price_1",
  features: "[]",
  active: true,
  maxPlans: "",
  maxMembers: "3",
  maxMegabytes: "100",
};
const errorsOf = (change: object) =>
  planFormSchema.safeParse({ ...plan, ...change }).error?.issues.map(({ message }) => message) ?? [];

test("parses a valid form into a plan", () => {
  expect(planFormSchema.parse({ ...plan, name: " Basic ", price: "19.50" })).toMatchObject({
    name: "Basic",
    price: 19.5,
  });
});

test.each([
  [{ name: " " }, "Name is required"],
  [{ price: "-1" }, "Price must be a positive number"],
  [{ price: "" }, "Price must be a positive number"],
  [{ price: "ten" }, "Price must be a positive number"],
  [{ price: "1.999" }, "Price can have cents, but no less"],
  [{ interval: "" }, "Interval is required"],
  [{ stripePriceId: "" }, "Stripe Price ID is required"],
])("%j is refused: %s", (change, message) => {
  expect(errorsOf(change)).toEqual([message]);
});

test.each(["0", "0.1", "19.99", "1e3"])("accepts the price %s", (price) => {
  expect(errorsOf({ price })).toEqual([]);
});

test.each([
  ['["a", "b"]', ["a", "b"]],
  ["[]", []],
  ["a, b", null],
  ['{"a": 1}', null],
  ["[1]", null],
  ["", null],
])("features %s are %j", (text, features) => {
  expect(parseFeatures(text)).toEqual(features);
});

test("an empty limit means none, and a limit is a whole number from one on", () => {
  expect(planFormSchema.parse(plan)).toMatchObject({ maxPlans: null, maxMembers: 3, maxMegabytes: 100 });
  expect(errorsOf({ maxPlans: "0" })).toEqual(["At least 1"]);
  expect(errorsOf({ maxPlans: "1.5" })).toEqual(["Enter a whole number"]);
  expect(errorsOf({ maxMembers: "many" })).toHaveLength(1);
});
