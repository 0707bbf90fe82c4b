package launch

// This file makes the group of a job: the same GID and the same token on all hosts.

import (
	"errors"
	"fmt"

	"github.com/funet/funet/uspace/attach"
)

// attempts bounds the GIDs that are tried when daemons disagree about which one is free. The first
// daemon offers another GID each time.
const attempts = 64

// makeJob makes the group that r asks for, of n nodes, with node i on host i modulo the number of
// hosts, and with the cards that which asks for. With GID 0 the first host chooses. On failure
// nothing is left. Errors: ErrHosts, and those of package attach as the daemons gave them.
func makeJob(hosts []host, n int, r attach.JobRequest, which Cards, profile string) (uint16, choice, error) {
	cards, infos, err := cardsOf(hosts, profile)
	if err != nil {
		return 0, choice{}, err
	}
	chosen := choose(which, hosts, infos)
	gid, err := makeGroup(hosts, cards, n, r, &chosen)
	if err != nil && errors.Is(err, attach.ErrNoPort) && which == AutoCards {
		chosen.direct, chosen.why = false, err.Error()
		gid, err = makeGroup(hosts, cards, n, r, &chosen)
	}
	return gid, chosen, err
}

func makeGroup(hosts []host, cards []uint16, n int, r attach.JobRequest, chosen *choice) (_ uint16, err error) {
	gid := r.GID
	r.Direct = chosen.direct
	r.Cards = make([]uint16, n)
	for i := range r.Cards {
		r.Cards[i] = cards[i%len(cards)]
	}
	for range attempts {
		r.GID = gid
		var h host
		if r.GID, h, err = agree(hosts, r); err == nil {
			return r.GID, nil
		}
		for _, h := range hosts {
			h.free()
		}
		err = fmt.Errorf("making a group of %d nodes: %v: %w", n, h, err)
		if gid != 0 && errors.Is(err, attach.ErrTaken) {
			return 0, fmt.Errorf("%w; leave out --gid to get a free one", err)
		}
		if !errors.Is(err, attach.ErrTaken) || h == hosts[0] {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w; %d others were tried", err, attempts-1)
}

// agree asks the first host for the group and the others for the same. An error is with its host.
func agree(hosts []host, r attach.JobRequest) (gid uint16, _ host, err error) {
	for _, h := range hosts {
		got, err := h.job(r)
		if err != nil {
			return 0, h, err
		}
		if r.GID != 0 && got != r.GID {
			return 0, h, fmt.Errorf("it made group %d when asked for %d: %w", got, r.GID, attach.ErrMalformed)
		}
		r.GID = got
	}
	return r.GID, nil, nil
}

// cardsOf asks the hosts about their cards, whose numbers must differ.
func cardsOf(hosts []host, profile string) ([]uint16, []attach.Info, error) {
	cards, infos := make([]uint16, len(hosts)), make([]attach.Info, len(hosts))
	at := map[uint16]host{}
	for i, h := range hosts {
		info, err := h.info()
		if err != nil {
			return nil, nil, err
		}
		if other, ok := at[info.Card]; ok {
			return nil, nil,
				fmt.Errorf("%w: %v and %v both have card %d; name each host once, and let all daemons use the same peers file", ErrHosts, other, h, info.Card)
		}
		if profile != "" && info.Profile != profile {
			return nil, nil,
				fmt.Errorf("%w: %v runs profile %s, not %s; an administrator changes that with `funet profile set %s`",
					ErrHosts, h, info.Profile, profile, profile)
		}
		at[info.Card], cards[i], infos[i] = h, info.Card, info
	}
	return cards, infos, nil
}
