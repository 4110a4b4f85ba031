import { Navigate } from "react-router";
import { useAuth } from "@/features/auth/auth-context";
import { invitePath, pendingInvite } from "@/features/members/invitation";

/** A person who accepted an invitation and then signed in by a link in a mail comes out at the dashboard: this takes them on. */
export function PendingInvitation({ pathname }: { pathname: string }) {
  const { user } = useAuth();
  const invitation = user && pathname === "/dashboard" ? pendingInvite() : null;
  return invitation && <Navigate to={invitePath(invitation)} replace />;
}
