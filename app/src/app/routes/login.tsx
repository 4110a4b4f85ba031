export { LoginForm as Component } from "@/features/auth/login-form";
