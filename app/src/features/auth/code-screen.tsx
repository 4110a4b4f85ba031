import type { User } from "@supabase/supabase-js";
import { PageHeading } from "@/components/page-heading";
import { Card } from "@/components/ui/card";
import { CodeForm } from "./code-form";
import { signOut } from "./sign-out";

/** Between the password and the app, for a person with a second factor. */
export function CodeScreen({ user }: { user: User }) {
  return (
    <>
      <PageHeading
        title="Enter your code"
        subtitle={`Your account is protected by a second factor. ${user.email ?? ""}`}
      />
      <Card className="p-5 sm:p-7">
        <CodeForm factors={verifiedFactors(user)} onCancel={() => void signOut()} />
      </Card>
    </>
  );
}

export function verifiedFactors({ factors }: Pick<User, "factors">) {
  return (factors ?? []).filter(({ status, factor_type: type }) => status === "verified" && type === "totp");
}
