import { SubscriptionPlans } from "@/features/admin-plans/subscription-plans";

export function Component() {
  return <SubscriptionPlans />;
}
