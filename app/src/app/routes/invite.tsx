import { useSearchParams } from "react-router";
import { LoadingState } from "@/components/page-state";
import { useAuth } from "@/features/auth/auth-context";
import { signOut } from "@/features/auth/sign-out";
import { keepTypedEmail } from "@/features/auth/typed-email";
import { InvitationScreen } from "@/features/members/invitation-screen";

export function Component() {
  const { loading, user } = useAuth();
  const [search] = useSearchParams();
  const [token, planId] = [search.get("token"), search.get("plan")];
  if (loading) return <LoadingState label="Verifying invitation..." />;
  return (
    <InvitationScreen
      key={`${token} ${planId} ${user?.id}`}
      invitation={token && planId ? { token, planId } : null}
      user={user}
      onSignOut={signOut}
      onLogIn={keepTypedEmail}
    />
  );
}
