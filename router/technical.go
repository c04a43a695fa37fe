package router

import (
	"slices"

	"github.com/feedsink/feedsink/schemas"
)

// recency is what a technical attribute holds.
type recency uint8

const (
	notRecency recency = iota
	recencyTimestamp
	recencyText
	recencyStatus
)

// recencyOf tells the attributes that the service computes from a profile's
// interactions from all others.
func recencyOf(name string) recency {
	switch name {
	case "lastMailOpeningMoment", "lastMailClickMoment", "lastMailTargetingMoment", "mobileTargetingRecency",
		"mobileDeliveryRecency", "goalReachedRecency", "participationRecency", "blacklistMoment":
		return recencyTimestamp
	case "lastDevice", "lastUserAgent":
		return recencyText
	case "lastMailActivityStatus":
		return recencyStatus
	}
	return notRecency
}

var mailActivityStatuses = []string{
	"SENT", "OPENED", "CLICKED", "ERROR", "FILTERED_NO_EMAIL_ADDRESS", "FILTERED_INVALID_EMAIL_ADDRESS",
	"FILTERED_DUPLICATE_EMAIL_ADDRESS", "FILTERED_EMAIL_SCORE_TOO_LOW", "FILTERED_BLACKLISTED_BY_RECIPIENT",
	"FILTERED_LONG_QUARANTINE", "FILTERED_TEMPORARY_QUARANTINE", "FILTERED_LOW_EMAIL_ACTIVITY",
	"FILTERED_CATCH_ALL_DOMAIN", "FILTERED_COMMERCIAL_PRESSURE", "FILTERED_OTHER", "BOUNCED_HARD_BOUNCE",
	"BOUNCED_SOFT_BOUNCE", "BOUNCED_AUTO_REPLY",
}

const (
	ruleComputed = "is computed by the service and may be given only with op create"
	ruleStatus   = "must be one of the service's mail activity statuses, such as SENT"
)

// technical checks a recency attribute. Only an import that creates profiles
// (mode CREATE_ONLY) may supply one, and those are the rows of op create.
func technical(kind recency, v schemas.Value, op schemas.Op) (out schemas.Value, rule string) {
	switch {
	case op != schemas.Create:
		return schemas.Value{}, ruleComputed
	case v.Kind() == schemas.Null:
		return v, ""
	case kind == recencyTimestamp:
		return asTimestamp(v, nil)
	case v.Kind() != schemas.String:
		return schemas.Value{}, ruleText
	case kind == recencyStatus && !slices.Contains(mailActivityStatuses, v.Text()):
		return schemas.Value{}, ruleStatus
	}
	return (*converter)(nil).bounded(v)
}
