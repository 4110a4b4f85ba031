import { Growth } from "@/features/admin-growth/growth";
import { Overview } from "@/features/admin-shell/overview";
import { useUser } from "../../guards";

export function Component() {
  return (
    <Overview user={useUser()}>
      <Growth />
    </Overview>
  );
}
