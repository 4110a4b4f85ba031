import { expect, test } from "vitest";
import { planSchema } from "./schema";

const plan = { title: "Plan", description: "", startDate: "", estimatedEndDate: "" };
const firstMessage = (values: unknown) => planSchema.safeParse(values).error?.issues[0]?.message;

test("title has at least three characters after trimming", () => {
  expect(firstMessage({ ...plan, title: " ab " })).toBe("Title must be at least 3 characters");
  expect(planSchema.parse({ ...plan, title: " abc " }).title).toBe("abc");
});

test("end date is not before start date", () => {
  const dates = { startDate: "2027-01-02", estimatedEndDate: "2027-01-01" };
  expect(firstMessage({ ...plan, ...dates })).toBe("The end date must not be before the start date");
  expect(firstMessage({ ...plan, ...dates, estimatedEndDate: "2027-01-02" })).toBeUndefined();
  expect(firstMessage({ ...plan, ...dates, startDate: "" })).toBeUndefined();

  const messages = planSchema.safeParse({ ...plan, ...dates, title: "" }).error?.issues.map(({ message }) => message);
  expect(messages).toEqual(["Title must be at least 3 characters", "The end date must not be before the start date"]);
});
