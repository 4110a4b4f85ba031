import { UserList } from "@/features/admin-users/user-list";
import { useUser } from "../../guards";

export function Component() {
  return <UserList ownId={useUser().id} />;
}
