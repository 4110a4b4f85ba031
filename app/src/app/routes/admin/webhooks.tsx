import { WebhookManagement } from "@/features/admin-webhooks/webhook-management";

export function Component() {
  return <WebhookManagement />;
}
