import { expect, test } from "vitest";
import { currentPlanName } from "./subscription";

const growth = {
  subscription_id: "sub_1",
  plan_name: "Growth",
  status: "active",
  current_period_end: null,
  cancel_at_period_end: false,
  plan_features: [],
};

test("only an ended plan can be bought again", () => {
  expect(currentPlanName(null)).toBeNull();
  expect(currentPlanName({ ...growth, status: "canceled" })).toBeNull();
  for (const status of ["active", "trialing", "past_due", "incomplete"]) {
    expect(currentPlanName({ ...growth, status }), status).toBe("Growth");
  }
});
