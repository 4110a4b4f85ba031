import { AuditLog } from "@/features/admin-audit/audit-log";

export function Component() {
  return <AuditLog />;
}
