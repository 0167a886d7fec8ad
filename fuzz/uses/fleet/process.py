"""The process that takes turns for a worker of Dask: `python -m fuzz.uses.fleet.process DESCRIPTOR`."""

from __future__ import annotations

import json
import sys
import traceback
from multiprocessing.connection import Connection

import msgspec

from fuzz.base.errors import UsageError
from fuzz.uses.fleet.campaign import Campaign
from fuzz.uses.search.search_process import run_search_process
from fuzz.uses.search.wire import Failed, packed
from fuzz.uses.starting import pools_of


def main(descriptor: int) -> None:
    """Do what is asked over that connection until it is closed."""
    connection = Connection(descriptor)
    told = json.loads(connection.recv_bytes())
    try:
        campaign = msgspec.convert(told["campaign"], Campaign)
        pack, targets = campaign.loaded(told["group"])
        make_pool = pools_of(targets, campaign.case_limit, campaign.longest)
        terms = campaign.terms(pack.kernels)
    except Exception as error:
        usage = isinstance(error, UsageError)
        connection.send_bytes(packed(Failed(str(error), traceback.format_exc(), usage)))
        return
    run_search_process(connection, [], targets, terms, make_pool)


if __name__ == "__main__":
    main(int(sys.argv[1]))
