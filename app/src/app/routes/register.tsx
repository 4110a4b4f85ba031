import { useState } from "react";
import { Alert } from "@/components/ui/alert";
import { SignUpForm } from "@/features/auth/sign-up-form";
import { pendingPriceId } from "@/features/billing/pending-plan";

export function Component() {
  const [pending] = useState(() => pendingPriceId() !== null);
  return (
    <SignUpForm
      notice={
        pending && (
          <Alert tone="info">
            <p>Complete registration to continue with your selected plan</p>
          </Alert>
        )
      }
    />
  );
}
