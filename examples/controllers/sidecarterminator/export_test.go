package sidecarterminator

// These are helpers that the tests on the API server share with the tests of decisions.
var (
	Job, Runs, MainOf, With, End = job, runs, mainOf, with, end
	Ended, RequestName, IsMarked = hasEnded, requestName, isMarked
	Stops, Ignores, Images       = stops, ignores, images
)

const (
	Never     = never
	OnFailure = onFailure
)

// One describes a container.
type One = one

// StuckContainer returns a container that never succeeds.
func StuckContainer(name, reason string) One {
	return one{name: name, exit: -1, waiting: reason, starts: 2}
}
