package main

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/service"
)

func newProfile() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Write one profile by hand",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProfileUpsert(), newProfilePatch(), newProfileDelete())
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	return cmd
}

// profileAnswer is what a write of a profile tells.
type profileAnswer struct {
	ID   string `json:"id"` // the service's, "" if it did not tell
	Href string `json:"href,omitempty"`
}

func newProfileUpsert() *cobra.Command {
	var call callFlags
	var body bodyFlags
	cmd := &cobra.Command{
		Use:   "upsert -c FILE --table TABLE [JSON]",
		Short: "Create a profile, or replace the one its unique keys match",
		Long: "upsert creates a profile. Where the unique keys of the body match one, it replaces that whole: what the body\n" +
			"does not name is gone. It prints the service's id of the profile.",
		Example: `  feedsink profile upsert -c feedsink.yaml --table customers '{"attributes":{"customerNumber":"C1","emailAddress":"a@example.com"}}'` + "\n" +
			"  feedsink profile upsert -c feedsink.yaml --table customers --file profile.json -o json",
		Args: cobra.MaximumNArgs(1),
	}
	body.register(cmd)
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		data, err := profileInput(cmd, &body, args)
		if err != nil {
			return nil, "", err
		}
		ref, err := c.UpsertProfile(ctx, call.table, service.JSON(data))
		return answerOf(ref, "", err)
	})
}

func newProfilePatch() *cobra.Command {
	var call callFlags
	var body bodyFlags
	cmd := &cobra.Command{
		Use:     "patch -c FILE --table TABLE ID [JSON]",
		Short:   "Change what is named of the profile with the service's id",
		Example: `  feedsink profile patch -c feedsink.yaml --table customers 4711 '{"subscriptions":{"newsletter":false}}'`,
		Args:    cobra.RangeArgs(1, 2),
	}
	body.register(cmd)
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		data, err := profileInput(cmd, &body, args[1:])
		if err != nil {
			return nil, "", err
		}
		ref, err := c.PatchProfile(ctx, call.table, args[0], service.JSON(data))
		return answerOf(ref, args[0], err)
	})
}

func newProfileDelete() *cobra.Command {
	var call callFlags
	cmd := &cobra.Command{
		Use:     "delete -c FILE --table TABLE ID",
		Short:   "Delete the profile with the service's id, perhaps with what is linked to it",
		Example: "  feedsink profile delete -c feedsink.yaml --table customers 4711",
		Args:    cobra.ExactArgs(1),
	}
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		if err := c.DeleteProfile(ctx, call.table, args[0]); err != nil {
			return nil, "", err
		}
		return profileAnswer{ID: args[0]}, "deleted", nil
	})
}

// profileInput is the body of operations 1 and 2, checked for its shape: the
// service alone knows the table's fields.
func profileInput(cmd *cobra.Command, body *bodyFlags, args []string) ([]byte, error) {
	var profile service.Profile
	if err := body.read(cmd.InOrStdin(), args, &profile); err != nil {
		return nil, err
	}
	return json.Marshal(profile)
}

func answerOf(ref service.ProfileRef, known string, err error) (any, string, error) {
	if err != nil {
		return nil, "", err
	}
	answer := profileAnswer{ID: cmp.Or(ref.ID(), known), Href: ref.Href()}
	if answer.ID == "" {
		return answer, "done; the answer tells no id", nil
	}
	return answer, answer.ID, nil
}
