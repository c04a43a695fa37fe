package service

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

// CarriesData reports whether the service knows of the operation what customers
// wrote into its tables, from the request or the file that it is about. Its words
// about it may quote them and stay out of error texts.
func (o Op) CarriesData() bool {
	switch o {
	case OpCreateETL, OpCreateWebhook, OpToken:
		return false
	}
	return true
}

// importsFile reports whether the operation uses up one of a table's imports.
func (o Op) importsFile() bool { return o == OpOneShot || o == OpTrigger }

// reads reports whether the operation changes nothing at the service, so that
// a lost answer leaves no doubt behind.
func (o Op) reads() bool {
	return o == OpGetRecord || o == OpResults || o == OpOutputFiles || o == OpToken
}
