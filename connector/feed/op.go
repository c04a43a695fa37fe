package feed

// Op is an operation of the interface, by its number there.
type Op uint8

// The operations. 15, the bulk import of version 4, is gone.
const (
	OpUpsertProfile Op = iota + 1
	OpPatchProfile
	OpDeleteProfile
	OpUpsertRecord
	OpUpdateRecord
	OpGetRecord
	OpDeleteRecord
	OpOneShot
	OpCreateETL
	OpTrigger
	OpResults
	OpOutputFiles
	OpCreateWebhook
	OpToken
)

var opNames = [...]string{
	OpUpsertProfile: "create or update profile",
	OpPatchProfile:  "patch profile",
	OpDeleteProfile: "delete profile",
	OpUpsertRecord:  "create or update record",
	OpUpdateRecord:  "update record",
	OpGetRecord:     "get record",
	OpDeleteRecord:  "delete record",
	OpOneShot:       "launch one-shot import",
	OpCreateETL:     "create ETL",
	OpTrigger:       "trigger import",
	OpResults:       "get results of execution",
	OpOutputFiles:   "get output files of execution",
	OpCreateWebhook: "create webhook",
	OpToken:         "access token",
}

// String is the operation in words, as errors begin with it.
func (o Op) String() string {
	if o < OpUpsertProfile || o > OpToken {
		return "unknown operation"
	}
	return opNames[o]
}

// carriesData reports whether requests and answers of the operation hold what
// customers wrote into their tables. Such answers stay out of error texts.
func (o Op) carriesData() bool { return o >= OpUpsertProfile && o <= OpDeleteRecord }

// importsFile reports whether the operation uses up one of a table's imports.
func (o Op) importsFile() bool { return o == OpOneShot || o == OpTrigger }

// reads reports whether the operation changes nothing at the service, so that
// a lost answer leaves no doubt behind.
func (o Op) reads() bool {
	return o == OpGetRecord || o == OpResults || o == OpOutputFiles || o == OpToken
}
