import { EmailIntegration } from "@/features/admin-email/email-integration";
import { useUser } from "../../guards";

export function Component() {
  return <EmailIntegration ownEmail={useUser().email ?? ""} />;
}
