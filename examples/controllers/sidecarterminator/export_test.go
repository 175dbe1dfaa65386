package sidecarterminator

// What the tests on the API server share with those of the decisions.
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

// StuckContainer returns one that never succeeds.
func StuckContainer(name, reason string) One {
	return one{name: name, exit: -1, waiting: reason, starts: 2}
}
