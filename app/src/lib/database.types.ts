export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

export type Database = {
  public: {
    Tables: {
      plan_members: {
        Row: {
          created_at: string;
          email: string | null;
          id: string;
          invite_accepted: boolean;
          invite_token: string | null;
          plan_id: string;
          role: string;
          updated_at: string;
          user_id: string | null;
        };
        Insert: {
          created_at?: string;
          email?: string | null;
          id?: string;
          invite_accepted?: boolean;
          invite_token?: string | null;
          plan_id: string;
          role?: string;
          updated_at?: string;
          user_id?: string | null;
        };
        Update: {
          created_at?: string;
          email?: string | null;
          id?: string;
          invite_accepted?: boolean;
          invite_token?: string | null;
          plan_id?: string;
          role?: string;
          updated_at?: string;
          user_id?: string | null;
        };
        Relationships: [
          {
            foreignKeyName: "plan_members_plan_id_fkey";
            columns: ["plan_id"];
            isOneToOne: false;
            referencedRelation: "plans";
            referencedColumns: ["id"];
          },
        ];
      };
      plans: {
        Row: {
          created_at: string;
          description: string | null;
          estimated_end_date: string | null;
          id: string;
          start_date: string | null;
          title: string;
          updated_at: string;
          user_id: string | null;
        };
        Insert: {
          created_at?: string;
          description?: string | null;
          estimated_end_date?: string | null;
          id?: string;
          start_date?: string | null;
          title: string;
          updated_at?: string;
          user_id?: string | null;
        };
        Update: {
          created_at?: string;
          description?: string | null;
          estimated_end_date?: string | null;
          id?: string;
          start_date?: string | null;
          title?: string;
          updated_at?: string;
          user_id?: string | null;
        };
        Relationships: [];
      };
      user_roles: {
        Row: {
          created_at: string;
          role: string;
          updated_at: string;
          user_id: string;
        };
        Insert: {
          created_at?: string;
          role: string;
          updated_at?: string;
          user_id: string;
        };
        Update: {
          created_at?: string;
          role?: string;
          updated_at?: string;
          user_id?: string;
        };
        Relationships: [];
      };
    };
    Views: { [_ in never]: never };
    Functions: {
      accept_invitation: { Args: { plan: string; token: string }; Returns: string };
      get_invitation: {
        Args: { plan: string; token: string };
        Returns: { email: string; plan_title: string; role: string }[];
      };
      get_user_email_by_id: { Args: { user_id_to_search: string }; Returns: string };
      get_user_plan_role: { Args: { plan_id: string; user_id: string }; Returns: string };
      is_admin: { Args: never; Returns: boolean };
    };
    Enums: { [_ in never]: never };
    CompositeTypes: { [_ in never]: never };
  };
};
