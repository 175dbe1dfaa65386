package pullsecret

import "github.com/workloadkit/workloadkit/reason"

// These are reasons why a Secret or a part of a Secret is not used.
const (
	// NotPullSecret means that the type of a Secret is neither kubernetes.io/dockerconfigjson nor
	// kubernetes.io/dockercfg.
	NotPullSecret reason.Code = "NotPullSecret"
	// MalformedSecret means that a Secret has no docker configuration, or that the configuration is not valid JSON.
	MalformedSecret reason.Code = "MalformedSecret"
	// MalformedEntry means that an entry of a docker configuration is malformed: the registry name is no host with an
	// optional port and path, the auth field is not base64 of "user:password", or there is no credential.
	MalformedEntry reason.Code = "MalformedEntry"
	// NothingMatches means that a Secret has no credentials for the given images.
	NothingMatches reason.Code = "NothingMatches"
	// SourceMissing means that a Secret to be copied does not exist.
	SourceMissing reason.Code = "SourceMissing"
	// SourceUnread means that a Secret to be copied was not read. The copies stay as before.
	SourceUnread reason.Code = "SourceUnread"
)
