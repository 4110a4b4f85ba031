import { HealthPage } from "@/features/admin-health/health-page";

export function Component() {
  return <HealthPage />;
}
