package v1beta1

import (
	"encoding/json"

	"github.com/workloadkit/workloadkit/decode"
)

// UnmarshalJSON reads a spec that need not make sense, as that of a CloneSet does.
func (s *PersistentPodStateSpec) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateSpec
	var read plain
	problems, err := decode.Fields(data, &read, "spec")
	if err != nil {
		return err
	}
	*s = PersistentPodStateSpec(read)
	s.Undecodable = problems
	return nil
}

// MarshalJSON refuses a spec that was not read in full: writing it would lose what was not read.
func (s PersistentPodStateSpec) MarshalJSON() ([]byte, error) {
	if err := readInFull(s.Undecodable); err != nil {
		return nil, err
	}
	type plain PersistentPodStateSpec
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads a status, and leaves out what makes no sense, as that of a CloneSet does.
func (s *PersistentPodStateStatus) UnmarshalJSON(data []byte) error {
	type plain PersistentPodStateStatus
	var read plain
	if _, err := decode.Fields(data, &read, "status"); err != nil {
		return err
	}
	*s = PersistentPodStateStatus(read)
	return nil
}
